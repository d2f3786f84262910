// Package storetest is the one suite that every [store.Store] passes: what the interface promises, as tests.
//
// An adapter's test calls [Run] with a function that makes an empty [Database] for each test. The suite opens as many
// independent clients of it as it needs, as several processes would.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Database {
//			path := filepath.Join(t.TempDir(), "store.db")
//			return storetest.Database{
//				Open: func(ctx context.Context) (store.Store, error) {
//					return sqlite.Open(ctx, path, sqlite.Options{})
//				},
//			}
//		})
//	}
//
// The suite knows that List may be stale and that notes may be late: it looks again until [Database.Patience] is over.
// But a client's own write or Read bounds how stale its next List is.
// All else is expected at once.
package storetest
