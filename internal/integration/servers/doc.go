// Package servers starts private database servers for tests, from the binaries
// that are installed: on loopback, on ports that the kernel chose, with data in
// a temporary folder. It ends only what it started.
//
// Where the environment names a server (IBID_TEST_POSTGRES, IBID_TEST_MYSQL),
// tests that break nothing use that one. A test whose server is missing is skipped, and says what to
// install; with IBID_TEST_REQUIRE=all it fails instead.
package servers
