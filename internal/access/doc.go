// Package access says who may ask for what. It knows tokens and their roles. It knows under which names a listener may
// be reached, and from which origins a browser may ask for changes.
//
// Beyond the roles it knows nothing of what is asked for. Its types are safe for concurrent use.
package access
