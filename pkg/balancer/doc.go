// Package balancer decides who should own what, and acts on it.
package balancer
