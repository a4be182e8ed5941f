package rawclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Handshake performs the handshake of the protocol; lite has none.
func (c *Client) Handshake(ctx context.Context) (err error) {
	began := time.Now()
	switch c.o.Protocol {
	case manifest.ProtocolNative:
		err = c.initialize(ctx)
	case manifest.ProtocolMCP:
		err = c.initializeMCP(ctx)
	}
	c.HandshakeTime, c.Early = time.Since(began), c.violationTexts()
	return err
}

// initialize performs the native handshake. Its id is 0, as in the host.
func (c *Client) initialize(ctx context.Context) error {
	spec := c.o.Spec
	params, err := json.Marshal(protocol.InitializeParams{
		AgentVersion:    spec.HostVersion,
		ExtensionID:     spec.ID,
		ProtocolVersion: protocol.Version,
		Capabilities:    OrEmpty(spec.Capabilities),
		Config:          OrEmpty(spec.Config),
		StateDir:        spec.StateDir,
	})
	if err != nil {
		return err
	}
	return c.open(ctx, c.Request("0", protocol.MethodInitialize, string(params)), "0")
}

// initializeMCP opens a session, or discovers that the server is stateless.
func (c *Client) initializeMCP(ctx context.Context) error {
	const client = `{"name":"exthost","version":"0"}`
	id := c.NewID()
	err := c.open(ctx, c.Request(id, protocol.MethodInitialize,
		fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}`, protocol.MCP20251125, client)), id)
	if err == nil {
		return c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, protocol.MethodInitialized))
	}
	if c.Dead() {
		return err
	}
	c.meta = fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientInfo":%s,"io.modelcontextprotocol/clientCapabilities":{}}`,
		protocol.MCP20260728, client)
	id = c.NewID()
	return c.open(ctx, c.Request(id, protocol.MethodDiscover, "{}"), id)
}

// Stateless reports whether the handshake found a stateless MCP server.
func (c *Client) Stateless() bool { return c.meta != "" }

// open sends the first request and stores its result.
func (c *Client) open(ctx context.Context, line, id string) error {
	answer := c.Expect(id)
	if err := c.Write(line); err != nil {
		return err
	}
	m, err := c.await(ctx, cmp.Or(c.o.Spec.Options.StartTimeout, Timeout), answer, "the handshake")
	if err != nil {
		return err
	}
	if e := Error(m); e != nil {
		return fmt.Errorf("it refuses the handshake: %s (%d)", e.Message, e.Code)
	}
	c.Result = m.Result
	return nil
}

// OrEmpty returns raw, or {} when raw is nil.
func OrEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}
