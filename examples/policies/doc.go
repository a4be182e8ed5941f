// Package policies contains templates of policies, one per directory: the kinds that
// run as a process, in Go and in Python, each with the policy.yaml that configures a host
// for it. The tests of this package run all of them.
//
//	grpc-go        all seven categories in one program, chosen by the host
//	grpc-python    limits how often a tool is called
//	mcp-go         masks e-mail addresses, and denies words
//	mcp-python     the same
//	native-go      asks a person about some tools, and masks words
//	native-python  denies tools by name
package policies
