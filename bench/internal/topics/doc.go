//go:build linux

// Package topics measures subscriptions: what a hundred idle ones cost a replica, how many messages one delivers beside
// a bare client, and how long deliveries pause when replicas come and go, beside a consumer group of Kafka.
package topics
