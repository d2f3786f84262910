// Package idempotencytest is the suite that every [idempotency.Records] passes, and the test with many processes that
// are killed half way. Only tests use it.
package idempotencytest
