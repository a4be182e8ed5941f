package check

import (
	"context"
)

// probe is one thing that is tried.
type probe struct {
	name, about string
	speaks      string // the protocols that it applies to
	run         func(ctx context.Context, s *subject) error
}

const (
	all     = "native mcp lite exec"
	wired   = "native mcp lite"
	rpc     = "native mcp"
	native  = "native"
	noWires = "exec"
)

// probes in the order in which they are tried: what the rest depends on first,
// what ends children last.
var probes = []probe{
	{"manifest", "the manifest is read without complaint", all, probeManifest},
	{"start", "the host starts it", all, probeStart},
	{"offer", "what it offers is what the manifest declares, and all of it can be used", all, probeOffer},
	{"names", "tool names are taken as they are", all, probeNames},
	{"descriptions", "every tool says what it does, at a length that vendors take", all, probeDescriptions},
	{"parameters", "every parameter is described", all, probeParameters},
	{"schemas", "input schemas are objects that say what is required", all, probeSchemas},
	{"vendors", "every model vendor takes the definitions", all, probeVendors},
	{"annotations", "annotations are known and do not contradict each other", all, probeAnnotations},
	{"placeholders", "what a command line needs is required, and no value becomes an option", noWires, probePlaceholders},
	{"calls", "the calls of check.json give what they should", all, probeCalls},

	{"handshake", "the handshake is answered in time, with nothing else on stdout", rpc, probeHandshake},
	{"ping", "ping is answered", rpc, probePing},
	{"ids", "ids come back as they were sent", wired, probeIDs},
	{"relist", "tools/list gives the tools of the handshake", rpc, probeRelist},
	{"unknown-method", "a method it does not know is an error, -32601", wired, probeUnknownMethod},
	{"unknown-tool", "a tool it does not have is an error", rpc, probeUnknownTool},
	{"missing-params", "a call without params is an error, and not the end", rpc, probeMissingParams},
	{"invalid-arguments", "arguments that do not fit are an error that says so", wired, probeInvalidArguments},
	{"notifications", "notifications and answers it does not expect are passed over", rpc, probeNotifications},
	{"extra-members", "members it does not know are passed over", rpc, probeExtraMembers},
	{"pieces", "a line may come in pieces, and two at once", wired, probePieces},
	{"large", "a line of 1 MiB is read", wired, probeLarge},
	{"concurrency", "50 requests at once are each answered once", rpc, probeConcurrency},
	{"unicode", "text comes back as it was sent", wired, probeUnicode},
	{"big-integers", "whole numbers of any size come back as they were sent", wired, probeBigIntegers},
	{"progress", "progress rises, and is told to those who asked", rpc, probeProgress},
	{"cancel", "a call can be cancelled, and holds nobody up meanwhile", rpc, probeCancel},
	{"alive", "after all this it still answers", wired, probeAlive},

	{"shutdown", "shutdown is answered, and the end of stdin ends it in time with exit code 0", native, probeShutdown},
	{"eof", "the end of stdin ends it in time", wired, probeEOF},
	{"sigterm", "SIGTERM ends it within a second", wired, probeSIGTERM},
	{"orphans", "no process is left behind", wired, probeOrphans},
	{"stdout", "there was nothing on stdout but answers", wired, probeStdout},
	{"stderr", "what it logs says how serious it is", wired, probeStderr},
}

// Probes returns the names of all probes, in their order.
func Probes() (names []string) {
	for _, p := range probes {
		names = append(names, p.name)
	}
	return names
}
