package exthost

import (
	"errors"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// replays reports whether a call that ended with err is to be sent once more: the
// operator allows it for the extension, the process had the request and ended
// before its answer, and the tool says that twice is as good as once. An answer
// that was too long would be so again.
func (r *routed) replays(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && e.Outcome != "" && processEnded(err) && e.Kind != protocol.LineTooLong &&
		r.entry != nil && r.target.options.Replay == manifest.ReplayIdempotent && repeatable(r.entry)
}

// repeatable reports whether the tool is annotated as one that only reads, or that
// does no more when it is called again with the same arguments.
func repeatable(e *tools.Entry) bool {
	says := func(hint string) bool { return string(rawjson.Get(e.Annotations, hint)) == "true" }
	return says("readOnlyHint") || says("idempotentHint")
}

// reached reports whether an extension had the request of a call that failed.
func reached(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && (e.Outcome != "" || e.Kind == protocol.ExtensionError || e.Kind == protocol.InvalidResponse)
}
