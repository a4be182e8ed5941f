package httpserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/exthost/exthost/protocol"
)

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, ok := v.(json.RawMessage) // written unchanged
	if !ok {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data[:len(data):len(data)], '\n')) // a failed write means that the client has disconnected
	return nil
}

// Fault is a *protocol.Error in an answer to the operator, with its evidence.
type Fault struct {
	Kind       protocol.Kind      `json:"kind,omitempty"`
	Message    string             `json:"message"`
	Extension  string             `json:"extension,omitempty"`
	Tool       string             `json:"tool,omitempty"`
	Code       int                `json:"code,omitempty"`
	Data       json.RawMessage    `json:"data,omitempty"`
	Outcome    string             `json:"outcome,omitempty"`
	RetryAfter protocol.Duration  `json:"retry_after_ms,omitempty"`
	Evidence   *protocol.Evidence `json:"evidence,omitempty"`
}

// Err converts f to an error, a *protocol.Error if f has a kind.
func (f *Fault) Err() error {
	if f.Kind == "" {
		return errors.New(f.Message)
	}
	return &protocol.Error{
		Kind:       f.Kind,
		Message:    f.Message,
		Extension:  f.Extension,
		Tool:       f.Tool,
		Code:       f.Code,
		Data:       f.Data,
		Outcome:    f.Outcome,
		RetryAfter: time.Duration(f.RetryAfter),
		Evidence:   f.Evidence,
	}
}

// failure is the answer of a failed operation.
type failure struct {
	Error Fault `json:"error"`
}

// FaultOf converts err to a Fault.
func FaultOf(err error) Fault {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return Fault{e.Kind, e.Message, e.Extension, e.Tool, e.Code, e.Data, e.Outcome, protocol.Duration(e.RetryAfter),
			e.Evidence}
	}
	return Fault{Kind: protocol.KindOf(err), Message: err.Error()}
}

// Refuse refuses a request to the operator's API with the given reason. It is for middleware in front of [Admin].
func Refuse(w http.ResponseWriter, why string) {
	fault := FaultOf(protocol.Errorf(protocol.Rejected, "%s", why))
	_ = writeJSON(w, faultStatus(fault.Kind), failure{fault}) // always encodes
}

func faultStatus(kind protocol.Kind) int {
	switch kind {
	case "":
		return http.StatusInternalServerError
	case protocol.InvalidArguments:
		return http.StatusBadRequest
	case protocol.ToolNotFound:
		return http.StatusNotFound
	case protocol.Rejected, protocol.Untrusted, protocol.DescriptorChanged:
		return http.StatusForbidden
	case protocol.RequirementMissing, protocol.ConfigInvalid:
		return http.StatusConflict
	case protocol.NotReady, protocol.BreakerOpen, protocol.Overloaded, protocol.Failed, protocol.ShuttingDown,
		protocol.GovernanceUnavailable:
		return http.StatusServiceUnavailable
	case protocol.CallTimeout, protocol.HandshakeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
