// Package discovery publishes what a group's discover finds, and reads what was published.
//
// One replica looks, under a lock for each group, and publishes a list as package published does, in the space
// "~discovery".
//
// Nothing vanishes because it could not be asked for. A look that fails changes no list, and what a look does not find
// stays for the grace.
package discovery
