// Package sourcetest opens a source in its own tests, and checks what its subscription does.
//
// Only tests use it. Package subscribetest has what every source must do.
package sourcetest
