package check

import (
	"context"

	"github.com/exthost/exthost/internal/authoring/rawclient"
)

type probe struct {
	name, about string
	protocols   string // the protocols it applies to, separated by spaces
	run         func(ctx context.Context) error
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

// probes returns the probes in order of execution: probes that others depend on come first, probes that end the process
// last.
func (s *subject) probes() []probe {
	return []probe{
		{"manifest", "the manifest is read without complaint", all, s.probeManifest},
		// before start, which skips all that follow if the extension does not start
		{probeOfSandbox, "its sandbox has what it needs", all, s.probeSandbox},
		{"start", "the host starts it", all, s.probeStart},
		{"offer", "what it offers is what the manifest declares, and all of it can be used", all, s.probeOffer},
		{"names", "tool names are taken as they are", all, s.probeNames},
		{"descriptions", "every tool says what it does, at a length that vendors take", all, s.probeDescriptions},
		{"parameters", "every parameter is described", all, s.probeParameters},
		{"schemas", "input schemas are objects that say what is required", all, s.probeSchemas},
		{"vendors", "every model vendor takes the definitions", all, s.probeVendors},
		{"annotations", "annotations are known and do not contradict each other", all, s.probeAnnotations},
		{"placeholders", "what a command line needs is required, and no value becomes an option", execOnly,
			s.probePlaceholders},
		{"calls", "the calls of check.json give what they should", all, s.probeCalls},

		{"handshake", "the handshake is answered in time, with nothing else on stdout", rpc,
			s.onShared(s.probeHandshake)},
		{"ping", "ping is answered", rpc, s.onShared(s.probePing)},
		{"ids", "ids come back as they were sent", stdio, s.onShared(s.probeIDs)},
		{"relist", "tools/list gives the tools of the handshake", rpc, s.onShared(s.probeRelist)},
		{"unknown-method", "a method it does not know is an error, -32601", stdio, s.onShared(s.probeUnknownMethod)},
		{"unknown-tool", "a tool it does not have is an error", rpc, s.onShared(s.probeUnknownTool)},
		{"missing-params", "a call without params is an error, and not the end", rpc, s.onShared(s.probeMissingParams)},
		{"invalid-arguments", "arguments that do not fit are an error that says so", stdio,
			s.onShared(s.probeInvalidArguments)},
		{"notifications", "notifications and answers it does not expect are passed over", rpc,
			s.onShared(s.probeNotifications)},
		{"extra-members", "members it does not know are passed over", rpc, s.onShared(s.probeExtraMembers)},
		{"pieces", "a line may come in pieces, and two at once", stdio, s.onShared(s.probePieces)},
		{"large", "a line of 1 MiB is read", stdio, s.onShared(s.probeLarge)},
		{"concurrency", "50 requests at once are each answered once", rpc, s.onShared(s.probeConcurrency)},
		{"unicode", "text comes back as it was sent", stdio, s.probeUnicode},
		{"big-integers", "whole numbers of any size come back as they were sent", stdio, s.probeBigIntegers},
		{"progress", "progress rises, and is told to those who asked", rpc, s.probeProgress},
		{"cancel", "a call can be cancelled, and holds nobody up meanwhile", rpc, s.probeCancel},
		{"alive", "after all this it still answers", stdio, s.probeAlive},

		{"shutdown", "shutdown is answered, and the end of stdin ends it in time with exit code 0", native,
			s.probeShutdown},
		{"eof", "the end of stdin ends it in time", stdio, s.probeEOF},
		{"sigterm", "SIGTERM ends it within a second", stdio, s.probeSIGTERM},
		{"orphans", "no process is left behind", stdio, s.probeOrphans},
		// late, because it waits until the process of the host has been left alone for long enough
		{"stays", "it runs until it is told to end", stdio, s.probeStays},
		{"stdout", "there was nothing on stdout but answers", stdio, s.probeStdout},
		{"stderr", "what it logs says how serious it is", stdio, s.probeStderr},
	}
}

// Probes returns the names of all probes, in order of execution.
func Probes() (names []string) {
	for _, p := range new(subject).probes() {
		names = append(names, p.name)
	}
	return names
}

// onShared turns a method that uses the shared process into a probe.
func (s *subject) onShared(run func(ctx context.Context, c *rawclient.Client) error) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := s.client(ctx)
		if err != nil {
			return err
		}
		return run(ctx, c)
	}
}
