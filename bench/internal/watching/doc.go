// Package watching measures what clients that watch a replica cost it: processor, reads of the store, memory.
package watching
