package packages

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDataOf: a variable is for data if the README documents a relative default, the code reads the variable, and
// the package ships no file of that name.
func TestDataOf(t *testing.T) {
	code := "process.env.MEMORY_FILE_PATH || process.env.NOTES_DIR || process.env.DB_PATH || " +
		"process.env.APP_CONFIG_PATH || process.env.CHROME_PATH || process.env.NODE_EXTRA_PATH"
	for name, tt := range map[string]struct {
		docs string
		want []Data
	}{
		"none": {"", nil},
		"in a list": {"- `MEMORY_FILE_PATH`: Path to the memory storage JSONL file (default: `memory.jsonl` in the " +
			"server directory)", []Data{
			{"MEMORY_FILE_PATH", "memory.jsonl"},
		}},
		"words between": {"* **DB_PATH** - the database. Defaults to \"./data/app.sqlite3\".",
			[]Data{{"DB_PATH", "app.sqlite3"}}},
		"in a table": {"| Variable | Meaning | Default |\n|---|---|---|\n| `DB_PATH` | the database | `./notes.db` " +
			"|\n| `NOTES_DIR` | notes | ./notes |\n", []Data{
			{"DB_PATH", "notes.db"},
			{"NOTES_DIR", "notes"},
		}},
		"the longest": {"`DB_PATH`: default `" + strings.Repeat("n", 53) + ".abcdefghij`", []Data{
			{"DB_PATH", strings.Repeat("n", 53) + ".abcdefghij"},
		}},
		"a hidden folder": {"`NOTES_DIR`: default `.notesdirectory`", []Data{
			{"NOTES_DIR", ".notesdirectory"},
		}},
		"too long":       {"`DB_PATH`: default `" + strings.Repeat("n", 54) + ".abcdefghij`", nil},
		"a long ending":  {"`DB_PATH`: default `n.abcdefghijk`", nil},
		"a long folder":  {"`NOTES_DIR`: default `./" + strings.Repeat("n", 65) + "`", nil},
		"an example":     {"\"MEMORY_FILE_PATH\": \"/path/to/custom/memory.jsonl\"", nil},
		"in the home":    {"`DB_PATH`: default `~/.app/notes.db`", nil},
		"absolute":       {"`DB_PATH`: default `/var/lib/notes.db`", nil},
		"above":          {"`DB_PATH`: default `../notes.db`", nil},
		"another value":  {"`NOTES_DIR` (default: `${HOME}/notes`)", nil},
		"a program":      {"`CHROME_PATH` (default: `chromium`)", nil},
		"where it runs":  {"`NOTES_DIR` (default: `.`)", nil},
		"no path":        {"`NOTES_DIR` (default: current directory)", nil},
		"settings":       {"`APP_CONFIG_PATH` (default: `app.json`)", nil},
		"of the package": {"`DB_PATH` (default: `seed.db`)", nil},
		"not read":       {"`OTHER_DB_PATH` (default: `other.db`)", nil},
		"another table":  {"| A | Default |\n|---|---|\n| x | y.db |\n\n| `DB_PATH` | z.db |\n", nil},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "index.js"), []byte(code), 0o600),
			os.WriteFile(filepath.Join(dir, "seed.db"), nil, 0o600),
			os.WriteFile(filepath.Join(dir, "ReadMe.md"), []byte(tt.docs), 0o600)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, dataOf(dir, readme(dir))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
