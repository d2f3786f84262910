// Package mqtt is the source of messages from a broker of MQTT 5.
//
// The broker keeps a session for the task: what is published while no one is connected waits in it. The next owner
// takes the session over by its client ID, and the broker disconnects the one before. An acknowledgement carries no
// fencing token. The token that the receiver gets with each message is the guarantee.
package mqtt
