// Package agentpython tests agent.py, an agent loop in Python that uses a host over MCP.
package agentpython
