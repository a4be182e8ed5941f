package check

import (
	"context"

	"github.com/exthost/exthost/internal/authoring/rawclient"
)

type probe struct {
	name, about string
	protocols   string // the protocols it applies to, separated by spaces
	run         func(ctx context.Context, s *subject) error
}

const (
	all      = "native mcp lite exec"
	stdio    = "native mcp lite"
	rpc      = "native mcp"
	native   = "native"
	execOnly = "exec"
)

// probeOfSandbox is the name of the probe that runs only with [Options].Sandbox.
const probeOfSandbox = "sandbox"

// probes in order of execution: probes that others depend on come first, probes that end the process last.
var probes = []probe{
	{"manifest", "the manifest is read without complaint", all, probeManifest},
	// before start, which skips all that follow if the extension does not start
	{probeOfSandbox, "its sandbox has what it needs", all, probeSandbox},
	{"start", "the host starts it", all, probeStart},
	{"offer", "what it offers is what the manifest declares, and all of it can be used", all, probeOffer},
	{"names", "tool names are taken as they are", all, probeNames},
	{"descriptions", "every tool says what it does, at a length that vendors take", all, probeDescriptions},
	{"parameters", "every parameter is described", all, probeParameters},
	{"schemas", "input schemas are objects that say what is required", all, probeSchemas},
	{"vendors", "every model vendor takes the definitions", all, probeVendors},
	{"annotations", "annotations are known and do not contradict each other", all, probeAnnotations},
	{"placeholders", "what a command line needs is required, and no value becomes an option", execOnly,
		probePlaceholders},
	{"calls", "the calls of check.json give what they should", all, probeCalls},

	{"handshake", "the handshake is answered in time, with nothing else on stdout", rpc, shared(probeHandshake)},
	{"ping", "ping is answered", rpc, shared(probePing)},
	{"ids", "ids come back as they were sent", stdio, shared(probeIDs)},
	{"relist", "tools/list gives the tools of the handshake", rpc, shared(probeRelist)},
	{"unknown-method", "a method it does not know is an error, -32601", stdio, shared(probeUnknownMethod)},
	{"unknown-tool", "a tool it does not have is an error", rpc, shared(probeUnknownTool)},
	{"missing-params", "a call without params is an error, and not the end", rpc, shared(probeMissingParams)},
	{"invalid-arguments", "arguments that do not fit are an error that says so", stdio, shared(probeInvalidArguments)},
	{"notifications", "notifications and answers it does not expect are passed over", rpc, shared(probeNotifications)},
	{"extra-members", "members it does not know are passed over", rpc, shared(probeExtraMembers)},
	{"pieces", "a line may come in pieces, and two at once", stdio, shared(probePieces)},
	{"large", "a line of 1 MiB is read", stdio, shared(probeLarge)},
	{"concurrency", "50 requests at once are each answered once", rpc, shared(probeConcurrency)},
	{"unicode", "text comes back as it was sent", stdio, probeUnicode},
	{"big-integers", "whole numbers of any size come back as they were sent", stdio, probeBigIntegers},
	{"progress", "progress rises, and is told to those who asked", rpc, probeProgress},
	{"cancel", "a call can be cancelled, and holds nobody up meanwhile", rpc, probeCancel},
	{"alive", "after all this it still answers", stdio, probeAlive},

	{"shutdown", "shutdown is answered, and the end of stdin ends it in time with exit code 0", native, probeShutdown},
	{"eof", "the end of stdin ends it in time", stdio, probeEOF},
	{"sigterm", "SIGTERM ends it within a second", stdio, probeSIGTERM},
	{"orphans", "no process is left behind", stdio, probeOrphans},
	{"stdout", "there was nothing on stdout but answers", stdio, probeStdout},
	{"stderr", "what it logs says how serious it is", stdio, probeStderr},
}

// Probes returns the names of all probes, in order of execution.
func Probes() (names []string) {
	for _, p := range probes {
		names = append(names, p.name)
	}
	return names
}

// shared turns a function that uses the shared process into a probe.
func shared(run func(context.Context, *subject, *rawclient.Client) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		c, err := s.client(ctx)
		if err != nil {
			return err
		}
		return run(ctx, s, c)
	}
}
