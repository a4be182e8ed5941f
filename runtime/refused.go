package runtime

import (
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// suspectSandbox adds to a fault of a process that its sandbox may be the cause, if the process reported a refusal in
// its answer to the handshake or before it ended.
func (s *Spec) suspectSandbox(fault *protocol.Error) {
	if s.Sandbox == nil || fault.Evidence == nil {
		return
	}
	said := append(slices.Clone(fault.Evidence.Stderr), fault.Evidence.Line, fault.Message)
	if line := s.Sandbox.Hear(strings.Join(said, "\n")); line != "" {
		fault.Message += "; its sandbox may have refused what it needs, see " + s.Sandbox.Next(line)
	}
}

// hearResult notes the text of a tool's error, which the caller gets as it is.
func (s *Spec) hearResult(r *Request, result []byte) {
	if s.Sandbox == nil || r.Method != protocol.MethodToolsCall {
		return
	}
	const key = "isError" // read here, because ToolResult.IsError decodes a result that states false too
	if mayHave(result, key) && string(rawjson.Get(result, key)) == "true" {
		s.Sandbox.Hear(protocol.ToolResult(result).Text())
	}
}
