package ibid_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
)

// A time of one host means nothing on another: what passes between engine and
// store are durations, on the store's clock. A host whose clock is minutes off
// can then neither take a claim early nor hold one for longer.
func TestNoTimeOfDayCrossesTheContract(t *testing.T) {
	t.Parallel()
	moment := reflect.TypeFor[time.Time]()
	var visit func(at string, typ reflect.Type)
	visit = func(at string, typ reflect.Type) {
		if typ == moment {
			t.Errorf("%s is a time.Time", at)
			return
		}
		switch typ.Kind() {
		case reflect.Slice, reflect.Array, reflect.Pointer, reflect.Map, reflect.Chan:
			visit(at, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				visit(at+"."+typ.Field(i).Name, typ.Field(i).Type)
			}
		case reflect.Func:
			for i := range typ.NumIn() {
				visit(at, typ.In(i))
			}
			for i := range typ.NumOut() {
				visit(at, typ.Out(i))
			}
		}
	}
	for _, contract := range []reflect.Type{
		reflect.TypeFor[ibid.Store](), reflect.TypeFor[ibid.Notifier](), reflect.TypeFor[ibid.Sweeper](),
		reflect.TypeFor[ibid.Inspector](), reflect.TypeFor[ibid.Checkpointer](), reflect.TypeFor[ibid.Describer](),
		reflect.TypeFor[ibid.TxStore](), reflect.TypeFor[ibid.Tx](),
	} {
		for i := range contract.NumMethod() {
			m := contract.Method(i)
			if m.Name == "Context" {
				continue // passes a context through
			}
			visit(contract.Name()+"."+m.Name, m.Type)
		}
	}
}
