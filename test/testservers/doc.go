// Package testservers gives tests the real servers of stores on the loopback interface. Each keeps its data and its
// port when it is killed and started again. Debian's packages bring most of them, and make stores-install brings all,
// as root.
//
// A test takes a fresh server, which ends with the test:
//
//	s := testservers.Start(t, testservers.KindPostgres)
//	uri := s.Database() // an empty database
//	s.Kill()
//	s.Start()
//
// or the one that its package shares:
//
//	func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }
//
//	uri := testservers.Shared(t, testservers.KindPostgres).Database()
//
// These tests are the suite "stores" of package suites, which says when they run and what becomes of one whose server
// cannot be provided.
//
// A kind has a file of its own, which registers it. Several servers that belong together, as a primary and its standby,
// are functions beside the kind. [Open] is for programs and rigs that have no test at hand.
//
// The processes die with the process that started them. PostgreSQL and others that refuse root run as the user nobody
// where this process is root. Only tests and benchmarks use this package.
package testservers
