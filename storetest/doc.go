// Package storetest holds the contract of ibid.Store as a table of cases.
//
// A store that passes them can be trusted with the promises of package ibid. A
// store's author runs them from a test:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, storetest.Target{
//			Open: func(ctx context.Context) (ibid.Store, func() error, error) {
//				s, err := mystore.Open(ctx, t.TempDir())
//				return s, s.Close, err
//			},
//			Tick:       100 * time.Millisecond,
//			Resolution: time.Millisecond,
//			Parallel:   true,
//		})
//	}
//
// A store whose clock is the process's own is tested on a fake one, where the
// edges of leases and windows can be hit to the nanosecond:
//
//	storetest.RunIn(t, target, synctest.Test)
//
// A program prints the reports of Check instead. Every case stands alone, opens
// a store of its own, and says why it matters. One that the target cannot be
// put through is reported as such, with what it needs: see Needs.
//
// # What it does not do
//
// It kills no server and cuts no connection; it does not measure. It proves a
// store wrong, and never right. That each case can fail is shown by a table of
// broken stores, in docs/storetest-matrix.md.
package storetest
