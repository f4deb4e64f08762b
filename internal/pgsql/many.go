package pgsql

// Many asks calls of one kind, all claims or all other writes, in a single
// statement. It returns a row for each, in no order: what the call returns alone, and
// its place among calls, from 1. No two calls may have the same key.
func (q *Queries) Many(calls []*Call) (query string, args []any) {
	if calls[0].SQL == q.begin {
		query = q.manyBegin
	} else {
		query = q.manyWrite
	}
	for i, arg := range calls[0].Args {
		switch arg.(type) {
		case []byte:
			args = append(args, column[[]byte](calls, i))
		case string:
			args = append(args, column[string](calls, i))
		case int64:
			args = append(args, column[int64](calls, i))
		}
	}
	return query, args
}

// column returns the i-th argument of each call.
func column[T any](calls []*Call, i int) []T {
	all := make([]T, len(calls))
	for n, c := range calls {
		all[n] = c.Args[i].(T)
	}
	return all
}

// IsBegin reports whether c is a claim.
func (q *Queries) IsBegin(c *Call) bool { return c.SQL == q.begin }
