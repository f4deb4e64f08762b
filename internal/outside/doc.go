// Package outside decides what becomes of a test whose server is not there: it
// is skipped and says what to install, or fails where every server is required.
//
// The environment has the say:
//
//   - IBID_TEST_REQUIRE=all makes a missing server a failure;
//   - IBID_TEST_REDIS, IBID_TEST_POSTGRES and IBID_TEST_MYSQL name a server that
//     tests which break nothing use instead of a private one;
//   - IBID_TEST_SKIPS names a file that gets a line for each test skipped.
package outside
