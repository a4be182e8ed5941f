package connect

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
)

// skill is the skill file, in the format of the Agent Skills specification.
//
//go:embed SKILL.md
var skill []byte

// maxSkill is how much of an existing file is read for the comparison with the skill, in bytes.
const maxSkill = 1 << 20

// The skill directories of a project: Claude Code's own, and the one that other agents share.
const (
	claudeSkills = ".claude/skills"
	sharedSkills = ".agents/skills"
)

// skillCommand returns exthost connect skill, which tells agents with a shell how to find and call tools.
func skillCommand(c *console.Console) *cobra.Command {
	var yes, print bool
	cmd := &cobra.Command{
		Use:   "skill [DIR]",
		Short: "Write a skill for agents that call tools by the command line",
		Long: "Write exthost/SKILL.md into DIR, a directory of skills: how an agent that has a shell finds tools\n" +
			"with exthost tools find, and calls them with exthost call. Such an agent needs no MCP client, and\n" +
			"pays for no list of tools. DIR is " + claudeSkills + " where there is a directory .claude, else\n" +
			sharedSkills + ". A file there that is another one is replaced only after a question.",
		Example: "  exthost connect skill\n  exthost connect skill ~/.claude/skills\n  exthost connect skill --print",
		Args:    console.AtMostOne("a directory of skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if print {
				_, err := c.Out.Write(skill)
				return err
			}
			dir := sharedSkills
			if info, err := os.Stat(filepath.Dir(claudeSkills)); err == nil && info.IsDir() {
				dir = claudeSkills
			}
			if len(args) == 1 {
				dir = args[0]
			}
			return writeSkill(cmd.Context(), c, filepath.Join(dir, "exthost", "SKILL.md"), yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "replace another file without a question")
	cmd.Flags().BoolVar(&print, "print", false, "print the skill and write nothing")
	return cmd
}

type skillOutcome struct {
	File    string `json:"file"`
	Written bool   `json:"written"` // false: the file was up to date
}

func writeSkill(ctx context.Context, c *console.Console, path string, yes bool) error {
	before, err := existing(path)
	switch {
	case err != nil:
		return err
	case bytes.Equal(before, skill):
		return reportSkill(c, skillOutcome{path, false}, path+" is up to date")
	case before != nil && !yes:
		if err := replaces(ctx, c, path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := file.WriteAtomic(path, skill); err != nil {
		return err
	}
	return reportSkill(c, skillOutcome{path, true}, "wrote "+path)
}

// existing returns the content of a file, nil when there is none. A link, or anything else that is not a regular file,
// is an error.
func existing(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &console.Error{
			Code: console.ExitDenied,
			Text: path + " is no regular file; nothing was written",
			Hint: "exthost connect skill DIR, with another directory",
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSkill))
	return append([]byte{}, text...), err
}

// replaces asks whether to replace a file, and returns an error unless the answer is yes.
func replaces(ctx context.Context, c *console.Console, path string) error {
	c.Tell(console.Safe(path) + " is there with another content, which would be lost")
	if !c.Interactive() {
		return &console.Error{
			Code: console.ExitDenied,
			Text: "this needs an answer, and there is no terminal; nothing was written",
			Hint: "exthost connect skill " + filepath.Dir(filepath.Dir(path)) + " --yes",
		}
	}
	yes, err := c.Yes(ctx)
	if err == nil && !yes {
		err = &console.Error{Code: console.ExitDenied, Text: "not agreed to; nothing was written"}
	}
	return err
}

func reportSkill(c *console.Console, o skillOutcome, text string) error {
	return c.Print(console.Document{Kind: "skill", Value: o, Names: []string{o.File}, Text: console.Safe(text) + "\n"})
}
