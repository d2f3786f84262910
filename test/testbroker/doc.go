// Package testbroker gives tests real message brokers on the loopback interface: Kafka, RabbitMQ, Mosquitto, Redis and
// NATS with JetStream. Each keeps its data and its port when it is killed and started again.
//
// What they need, and who brings it (make brokers-install brings all of it, as root on Debian):
//
//   - Kafka: Java 17 or newer, and Maven, which fetches the broker's own jars once. Their hashes are verified, and they
//     stay in the user's cache directory (shardctl-test). The repositories of the user's Maven settings are used.
//   - RabbitMQ, Mosquitto, Redis: Debian's packages rabbitmq-server, mosquitto and redis-server.
//   - NATS: nothing. The module beside this package pins nats-server, and it is built once into the same cache.
//
// A test takes a fresh broker, which ends with the test:
//
//	b := testbroker.Kafka(t)
//	… b.Addr …
//	b.Kill()
//	b.Start()
//
// or the one that its package shares:
//
//	func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }
//
//	b := testbroker.Shared(t, testbroker.KindKafka)
//
// These tests are the suite "brokers" of package suites, which says when they run and what becomes of one whose broker
// cannot be provided.
//
// [Open] is for programs and rigs that have no test at hand. The processes die with the process that started them,
// also when that one is killed (Linux: a parent-death signal). Only tests and benchmarks use this package.
package testbroker
