// Package plan measures one plan, with no database.
package plan
