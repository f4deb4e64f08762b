// Package integration tests ibid against real drivers and servers. It is a
// module of its own, so that what it requires stays out of the root, and it is
// never released.
package integration

import _ "github.com/ibid-go/ibid"
