// Package local has what connects the programs of one machine: the sockets of running hosts, the relay of a client on
// stdio, and the configuration files of MCP clients.
package local
