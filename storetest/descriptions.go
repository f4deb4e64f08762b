package storetest

import "github.com/ibid-go/ibid"

// A Describer says what its server's settings let it promise.
var descriptions = []clause{
	{"Describe names the store", "an operator could not tell which store is meant", func(e *env) {
		e.want(e.describe().Store != "", "Description.Store is empty")
	}},
	{"Describe advises on all that is not survived", "whoever requires it would not learn what to change", func(e *env) {
		d := e.describe()
		for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
			if d.Survives&bit == 0 {
				e.want(d.Advice[bit] != "", "%s does not survive %v, and gives no advice", d.Store, bit)
			}
		}
	}},
	{"Describe promises nothing that it advises on", "a promise with a reservation is none", func(e *env) {
		d := e.describe()
		for bit := ibid.ProcessKill; bit <= ibid.Failover; bit <<= 1 {
			if d.Survives&bit != 0 {
				e.want(d.Advice[bit] == "", "%s survives %v, and advises %q", d.Store, bit, d.Advice[bit])
			}
		}
	}},
}

func (e *env) describe() ibid.Description {
	s, ok := ability[ibid.Describer](e, "a Describer")
	if !ok {
		return ibid.Description{}
	}
	d, err := s.Describe(e.ctx)
	if err != nil {
		e.failf("Describe: %w", err)
	}
	return d
}
