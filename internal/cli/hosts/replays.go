package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/internal/text"
)

// Replays writes a manifest with kind "replay" for each extension in a cassette into a new directory, which the caller
// must remove. match and latency are the values for the manifests. ids maps the ids of these extensions to the recorded
// ones.
func Replays(file, match, latency string) (dir string, ids map[string]string, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return "", nil, err
	}
	recorded, err := player.Extensions(file)
	switch e, bad := errors.AsType[*cassette.Error](err); {
	case bad:
		return "", nil, &console.Error{Code: console.ExitInvalid, Text: fmt.Sprintf("%s: %v", file, e), Hint: recordIt}
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, &console.Error{Code: console.ExitNotFound, Text: "there is no " + file, Hint: recordIt}
	case err != nil:
		return "", nil, err
	case len(recorded) == 0:
		return "", nil, &console.Error{
			Code: console.ExitInvalid,
			Text: "no extension was recorded in " + file,
			Hint: recordIt,
		}
	}
	if len(recorded) > maxReplayed {
		return "", nil, &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s holds %d extensions, more than the %d that are replayed together", file,
				len(recorded), maxReplayed),
			Hint: "state some of them in manifests, with kind = \"replay\"",
		}
	}
	if dir, err = os.MkdirTemp("", "exthost-replay-"); err != nil {
		return "", nil, err
	}
	ids = make(map[string]string)
	for n, of := range recorded {
		id := strings.ReplaceAll(of, ".", "_") // a server of a .mcp.json has a dot in its id
		for ids[id] != "" || id != of && slices.Contains(recorded, id) {
			id += "_"
		}
		ids[id] = of
		text := fmt.Sprintf("[plugin]\nid = %s\nversion = \"0.1.0\"\n[transport]\nkind = \"replay\"\nfile = "+
			"%s\nextension = %s\nmatch = %q\nlatency = %q\n",
			text.Literal(id), text.Literal(file), text.Literal(of), match, latency)
		folder := filepath.Join(dir, "extensions", strconv.Itoa(n)) // ids may hold control characters
		err := errors.Join(
			os.MkdirAll(folder, 0o700),
			os.WriteFile(filepath.Join(folder, "plugin.toml"), []byte(text), 0o600),
		)
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, ids, nil
}

// maxReplayed is how many extensions of a cassette run at once; each of them reads the whole cassette.
const maxReplayed = 1000

const recordIt = "exthost calls record FILE"

// Replaying returns cfg with the extensions of [Replays] in place of its own.
func Replaying(cfg *config.Config, dir string) *config.Config {
	replaying := *cfg
	replaying.Extensions.SearchPaths = []string{filepath.Join(dir, "extensions")}
	replaying.Extensions.Disabled, replaying.Extensions.Allowlist, replaying.Extensions.Entries = nil, nil, nil
	replaying.Project.SearchPaths = false
	return &replaying
}
