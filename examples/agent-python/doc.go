// Package agentpython holds an agent loop in Python, agent.py, that talks to a host over
// MCP. The tests of this package run it.
package agentpython
