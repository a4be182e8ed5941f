// Package peertest proves the whole program against MCP clients and servers that
// others wrote, over every transport and in both eras of the protocol. It holds
// nothing but tests, and these run only where their peers are installed:
//
//	.ci/peers /tmp/exthost-peers
//	EXTHOST_PEERS=/tmp/exthost-peers go test ./internal/peertest/
package peertest
