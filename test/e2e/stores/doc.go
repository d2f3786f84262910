// Package stores plays the core scenarios on every store that needs a server of its own: balance, an orderly end, kill
// -9 of a replica and of its worker, a freeze, a store that is away, a replica that is cut off, a rolling update, and a
// chaos of all of these. MongoDB and SQLite have them, and more, in the packages beside this one.
//
// Where several servers keep a store, their leader and their majority are lost as well. Of five Redis servers in one
// quorum any two are lost, then three.
//
//	make stores-scenarios                           what CI plays: a graceful end and deaths on each store
//	make stores-scenarios WHOLE=1 STORES="postgres redis"   all of them, on some stores
package stores
