// Package policies holds templates of policies, a directory each: the three kinds
// that run as a process, in Go and in Python. Beside each program stands the
// policy.yaml that makes a host run it. The tests of this package run them all.
//
//	grpc-go        all seven categories in one program, chosen by the host
//	grpc-python    limits how often a tool is called
//	mcp-go         masks e-mail addresses, and refuses words
//	mcp-python     the same
//	native-go      lets a person decide about some tools, and masks words
//	native-python  refuses tools by name
package policies
