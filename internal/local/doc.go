// Package local groups what connects programs on one machine: the sockets of running hosts, the relay of a client
// on stdio, and the configuration files of MCP clients.
package local
