package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
)

// settings returns the settings to paste into an MCP client, or into Prometheus, with the token.
func (g *given) settings() string {
	if g.scope == config.ScopeMetrics {
		scheme, host, _ := strings.Cut(strings.TrimSuffix(g.URL, metricsPath), "://")
		return fmt.Sprintf("scrape_configs:\n  - job_name: exthost\n    scheme: %s\n    static_configs:\n"+
			"      - targets: [%q]\n    authorization:\n      credentials: %s\n", scheme, host, g.Token)
	}
	type server struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string]map[string]server{
		"mcpServers": {"exthost": {"http", g.URL, map[string]string{"Authorization": "Bearer " + g.Token}}},
	}) // cannot fail
	return b.String()
}

const (
	mcpPath     = "/mcp"
	metricsPath = "/metrics"
)

// address returns the URL that the token of the client opens.
func (g *given) address(ctx context.Context, cfg *config.Config) string {
	url := urlOf(ctx, cfg)
	if g.scope == config.ScopeMetrics {
		return strings.TrimSuffix(url, mcpPath) + metricsPath
	}
	return url
}

// byHand returns the error for a configuration change that the program did not make. If a person can make the change,
// byHand prints the token, and the error lists the lines to write.
func (g *given) byHand(ctx context.Context, c *console.Console, cfg *config.Config, err error) error {
	wanted, ok := errors.AsType[*config.ByHand](err)
	if !ok {
		return err
	}
	g.URL, g.File = g.address(ctx, cfg), wanted.File
	if err := c.Print(console.Document{Kind: "client", Value: g, Text: g.settings()}); err != nil {
		return err
	}
	return linesToWrite(wanted, "exthost reload, once the file has these lines; until then the token is of no client")
}

// linesToWrite returns the error for a file that a person has to change.
func linesToWrite(wanted *config.ByHand, next string) error {
	return &console.Error{
		Code: console.ExitInvalid,
		Text: fmt.Sprintf("%v\nWrite into %s:\n\n%s", wanted, console.NearbyPath(wanted.File), wanted.Lines),
		Hint: next,
	}
}

// change changes the configuration. Its errors name the command to run next.
func change(c *console.Console, cfg *config.Config, e config.ClientEdit) (config.Edited, error) {
	done, err := config.EditClient(hosts.LoadOptions(c), e)
	if wrong := config.MisfitsOf(err); wrong != nil && wrong[0].Field != "name" {
		return done, refused(e, err)
	}
	wanted, byHand := errors.AsType[*config.ByHand](err)
	_, exists := cfg.Server.Clients[e.Name]
	switch {
	case protocol.KindOf(err) == protocol.ToolNotFound:
		return done, hosts.UnknownClient(e.Name, names(cfg))
	case protocol.KindOf(err) == protocol.InvalidArguments && e.New != nil && exists:
		return done, console.Usagef("exthost client rotate "+e.Name+" gives it a new token", "%s", protocol.Reason(err))
	case protocol.KindOf(err) == protocol.InvalidArguments:
		return done, console.Usagef("exthost client list", "%s", protocol.Reason(err))
	case byHand && e.Remove:
		return done, &console.Error{
			Code: console.ExitInvalid,
			Text: wanted.Error(),
			Hint: "remove server.clients." + e.Name + " there, then exthost reload",
		}
	}
	return done, err
}

// refused returns the error for a value of a client that the configuration refuses.
func refused(e config.ClientEdit, err error) error {
	text, verb := protocol.Reason(err), "set"
	if e.New != nil {
		verb = "add"
	}
	switch protocol.KindOf(err) {
	case protocol.ToolNotFound:
		return &console.Error{
			Code: console.ExitNotFound,
			Text: text,
			Hint: "state it under toolsets in the user's configuration; exthost config show shows those there are",
		}
	case protocol.ConfigInvalid:
		return &console.Error{
			Code: console.ExitInvalid,
			Text: text,
			Hint: "state it in the user's configuration, or in one of --config FILE",
		}
	}
	return console.Usagef("exthost client "+verb+" --help", "%s", text)
}

// urlOf returns the address of the running host, or the configured address if no host serves HTTP.
func urlOf(ctx context.Context, cfg *config.Config) string {
	if address := hosts.OverHTTP(ctx); address != "" {
		return address
	}
	scheme, host, port := "http", "127.0.0.1", "7800"
	if h, p, err := net.SplitHostPort(cfg.Server.Listen); err == nil {
		port = p
		if ip := net.ParseIP(h); h != "" && !(ip != nil && ip.IsUnspecified()) {
			host = h
		}
	}
	if port == "0" {
		port = "PORT" // any free port
	}
	if cfg.Server.TLS.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + mcpPath
}
