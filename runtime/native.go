package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

type native struct{ spec *Spec }

// traits differ for a service on NATS. Other hosts call it too, so request ids must be unique across hosts, and the
// host does not shut it down. The service need not answer canceled calls: answers can be lost, and ending the run would
// free no process.
func (d *native) traits() traits {
	own := d.spec.Manifest.Transport.Kind != manifest.KindNATS
	return traits{cancels: true, mayIgnoreCanceled: !own, shutdown: own, zeroID: own, randomID: !own}
}

func (*native) ping() (string, json.RawMessage) { return protocol.MethodPing, emptyObject }

func (d *native) handshake(ctx context.Context, c *jsonrpc.Conn) (*Handshake, descriptors, error) {
	p := protocol.InitializeParams{
		AgentVersion:    d.spec.HostVersion,
		ExtensionID:     d.spec.ID,
		ProtocolVersion: protocol.Version,
		Capabilities:    orEmpty(d.spec.Capabilities),
		Config:          orEmpty(d.spec.Config),
		StateDir:        d.spec.StateDir,
	}
	if d.spec.Manifest.Transport.Kind == manifest.KindNATS {
		p.StateDir = "" // the directory is on this machine
	}
	raw, err := c.Call(ctx, protocol.MethodInitialize, mustJSON(p), nil)
	if err != nil {
		return nil, descriptors{}, nativeRefused(err)
	}
	if textOf(raw, "protocolVersion") != "" || rawjson.Get(raw, "serverInfo") != nil {
		return nil, descriptors{}, speaksMCP()
	}
	return readInitialize(raw)
}

func readInitialize(raw json.RawMessage) (*Handshake, descriptors, error) {
	version, err := protocolVersion(raw)
	if err != nil {
		return nil, descriptors{}, err
	}
	if version != protocol.Version {
		return nil, descriptors{}, protocol.Errorf(protocol.ProtocolVersion,
			"it speaks version %d of the native protocol, this host version %d", version, protocol.Version)
	}
	tools, okTools := arrayOf[json.RawMessage](raw, "tools")
	hooks, okHooks := arrayOf[string](raw, "hooks")
	if !rawjson.IsObject(raw) || !okTools || !okHooks {
		return nil, descriptors{}, notObject(protocol.MethodInitialize, raw)
	}
	if len(tools) > limits.tools {
		return nil, descriptors{}, tooManyTools(len(tools))
	}
	h := &Handshake{Protocol: manifest.ProtocolNative, ServerVersion: textOf(raw, "server_version")}
	return h, descriptors{tools: tools, hooks: hooks}, nil
}

func protocolVersion(raw json.RawMessage) (int, error) {
	version := 0
	if value := rawjson.Get(raw, "protocol_version"); value != nil && json.Unmarshal(value, &version) != nil {
		return 0, protocol.Errorf(protocol.ProtocolVersion, "its protocol_version %s is not a whole number",
			cutLine(value))
	}
	if version == 0 {
		return protocol.Version, nil
	}
	return version, nil
}

func tooManyTools(n int) error {
	return protocol.Errorf(protocol.HandshakeInvalid, "it offers %d tools; the limit is %d", n, limits.tools)
}

func speaksMCP() error {
	return protocol.Errorf(protocol.HandshakeInvalid,
		`it answered the native handshake as an MCP server does; set protocol = "mcp" under [transport]`)
}

// refusalOfPythonSDK is how MCP servers in Python reject params that they cannot read; they name no field.
const refusalOfPythonSDK = "Invalid request parameters"

// nativeRefused translates a refused initialize. It recognises MCP servers, which reject native params.
func nativeRefused(err error) error {
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if refused.Code == jsonrpc.CodeInvalidParams && refused.Message == refusalOfPythonSDK {
			return speaksMCP()
		}
		text := refused.Message + string(refused.Data)
		for _, word := range []string{"protocolVersion", "clientInfo", "protocol version"} {
			if strings.Contains(text, word) {
				return speaksMCP()
			}
		}
	}
	return handshakeError(protocol.MethodInitialize, err)
}

func (d *native) relist(ctx context.Context, c *jsonrpc.Conn) ([]json.RawMessage, error) {
	raw, err := c.Call(ctx, protocol.MethodToolsList, emptyObject, nil)
	if err != nil {
		return nil, err
	}
	tools, ok := arrayOf[json.RawMessage](raw, "tools")
	switch {
	case !ok || !rawjson.IsObject(raw):
		return nil, notObject(protocol.MethodToolsList, raw)
	case len(tools) > limits.tools:
		return nil, tooManyTools(len(tools))
	}
	return tools, nil
}

// outgoing puts Meta into the arguments, so that tools see it without access to the envelope.
func (*native) outgoing(r *Request, token json.RawMessage) (string, json.RawMessage, error) {
	params := r.params()
	if r.Meta != nil {
		params = rawjson.Set(params, "arguments", rawjson.Set(rawjson.Get(params, "arguments"), "_meta", r.Meta))
	}
	if token != nil {
		params = withToken(params, token)
	}
	return r.Method, params, nil
}

func (*native) converter(method string) converter {
	if method == protocol.MethodToolsCall {
		return toolResult
	}
	return nil
}

func (*native) followChanges(context.Context, *jsonrpc.Conn) bool { return false }
