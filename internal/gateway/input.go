package gateway

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

// maxRounds is how often one call may be answered with questions.
const maxRounds = 16

// InputRounds is the [dispatch.Stage] that puts the questions of a modern server to a
// caller of another era. A modern server cannot ask while it works: it answers with its
// questions, and is called again with the answers. A modern caller does that itself.
func (g *Gateway) InputRounds(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if err := refuseStaleAnswers(c.Instance, params); err != nil {
			return nil, err
		}
		round := params
		for range maxRounds {
			result, err := next(ctx, c, round)
			if err != nil || c.Sent.Client == nil || !needsInput(result) || isModern(c.Request.Session) {
				return result, err
			}
			if round, err = withAnswers(ctx, c.Sent.Client, params, result); err != nil {
				return nil, err
			}
		}
		return nil, protocol.Errorf(protocol.InvalidResponse, "it answered %d times with another question, and never with a result", maxRounds)
	}
}

// isModern reports whether s is of a client of the modern era.
func isModern(s *protocol.Session) bool {
	return s != nil && protocol.EraOf(s.Version) == protocol.EraModern
}

// refuseStaleAnswers refuses the answers to questions of a call that is not held any more:
// they mean nothing to a legacy server, which would carry out the call again.
func refuseStaleAnswers(i *unit.Instance, params json.RawMessage) error {
	if !bytes.Contains(params, []byte("requestState")) || rawjson.Get(params, "requestState") == nil {
		return nil
	}
	if hs := i.Handshake(); hs != nil && protocol.EraOf(hs.Era) != protocol.EraModern {
		e := protocol.Errorf(protocol.ExtensionError, "requestState: no call waits for these answers any more; make the call anew")
		e.Code = protocol.InvalidArguments.Code() // an error, and not a result for the model, which made no mistake
		return e
	}
	return nil
}

// needsInput reports whether a result is a set of questions.
func needsInput(result json.RawMessage) bool {
	return bytes.Contains(result, []byte("input_required")) && string(rawjson.Get(result, "resultType")) == `"input_required"`
}

// withAnswers puts the questions in result to the client, and returns params with the
// answers.
func withAnswers(ctx context.Context, client protocol.Peer, params, result json.RawMessage) (json.RawMessage, error) {
	answers := []byte{'{'}
	for key, question := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
		method, _ := rawjson.Text(rawjson.Get(question, "method"))
		answer, err := client.Call(ctx, method, rawjson.Get(question, "params"))
		if err != nil {
			return nil, err
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(append(append(answers, rawjson.Quote(key)...), ':'), answer...)
	}
	edits := map[string]json.RawMessage{"inputResponses": append(answers, '}'), "requestState": rawjson.Get(result, "requestState")}
	return rawjson.Edit(params, edits), nil
}
