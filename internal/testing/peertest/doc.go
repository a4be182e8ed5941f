// Package peertest tests the whole program against MCP clients and servers of other
// projects, over every transport and in legacy and modern protocol versions. It contains tests only.
// They run where the peers are installed:
//
//	.ci/peers /tmp/exthost-peers
//	EXTHOST_PEERS=/tmp/exthost-peers go test ./internal/testing/peertest/
package peertest
