package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cassette"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/literal"
	"github.com/exthost/exthost/internal/player"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/mcpserver"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	strict, nearest bool
	latency         string
}

// Replay serves a cassette.
func Replay(c *console.Console) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Serve a recording as an MCP server on stdin and stdout",
		Long: "Serve the tools of all extensions in a cassette, which exthost record wrote, as an MCP server\n" +
			"on stdin and stdout. Nothing of the extensions runs: each call gets the answer that it got while\n" +
			"it was recorded, with the progress, the log messages and the questions on the way, and equal calls\n" +
			"get their answers in the recorded order.",
		Example: "  exthost replay notes.cassette\n  exthost replay notes.cassette --nearest --latency real",
		Args:    console.One("the cassette"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), c, args[0])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.strict, "strict", false, "a call that was not recorded is an error (default)")
	f.BoolVar(&o.nearest, "nearest", false, "a call that was not recorded gets the answer to the most similar one")
	f.StringVar(&o.latency, "latency", manifest.LatencyNone, "0: answers come at once; real: they take as `LONG` as they did")
	return cmd
}

// drain is the time for calls in flight when the client closes stdin.
const drain = 3 * time.Second

func (o *replayOptions) run(ctx context.Context, c *console.Console, file string) (err error) {
	if o.strict && o.nearest {
		return console.Usagef("exthost replay FILE --nearest", "--strict and --nearest exclude each other")
	}
	if o.latency != manifest.LatencyNone && o.latency != manifest.LatencyReal {
		return console.Usagef("", "--latency is 0 or real, not %q", o.latency)
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	cfg, dir, err := o.config(file)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log, err := c.Logger(cfg.Log, console.Level(cmp.Or(c.LogLevel, "warn")))
	if err != nil {
		return err
	}
	h, err := exthost.Open(ctx, cfg, exthost.Options{Logger: log, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	server := mcpserver.New(h, mcpserver.Options{Version: exthost.Version(), Logger: log, DrainTimeout: drain})
	err = server.ServeStdio(ctx, c.In.(*os.File), c.Out.(*os.File)) // whose reads can be interrupted
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

// config returns the configuration of a host that replays all extensions of a cassette, and the
// directory of their manifests, which the caller must remove.
func (o *replayOptions) config(file string) (cfg *config.Config, dir string, err error) {
	ids, err := player.Extensions(file)
	if e, ok := errors.AsType[*cassette.Error](err); ok {
		return nil, "", &console.Error{Code: console.ExitInvalid, Text: fmt.Sprintf("%s: %v", file, e), Hint: "exthost record -o FILE"}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &console.Error{Code: console.ExitNotFound, Text: "there is no " + file, Hint: "exthost record -o FILE"}
	}
	if err != nil {
		return nil, "", err
	}
	if len(ids) == 0 {
		return nil, "", &console.Error{Code: console.ExitInvalid, Text: "no extension was recorded in " + file, Hint: "exthost record -o FILE"}
	}
	if dir, err = os.MkdirTemp("", "exthost-replay-"); err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		if err = errors.Join(err, o.writeManifest(filepath.Join(dir, "extensions"), file, id)); err != nil {
			return nil, "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	cfg = config.Default()
	cfg.Extensions.SearchPaths, cfg.Extensions.Trust = []string{filepath.Join(dir, "extensions")}, config.TrustOff
	return cfg, dir, nil
}

// writeManifest writes the manifest of an extension that is replayed.
func (o *replayOptions) writeManifest(dir, file, id string) error {
	match := manifest.MatchStrict
	if o.nearest {
		match = manifest.MatchNearest
	}
	name := strings.ReplaceAll(id, ".", "_") // of a server in a .mcp.json
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf("[plugin]\nid = %s\nversion = \"0.1.0\"\n[transport]\nkind = \"replay\"\nfile = %s\nextension = %s\nmatch = %q\nlatency = %q\n",
		literal.String(name), literal.String(file), literal.String(id), match, o.latency)
	return os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(text), 0o600)
}
