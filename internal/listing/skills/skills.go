// Package skills reads the Agent Skills in the folder of an extension, and presents them as the resources and entries
// of MCP's extension for skills (SEP-2640). It runs nothing of a skill.
package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// Folder is the directory of an extension's skills, below its root.
const Folder = "skills"

// MainFile is the file of each skill that holds its frontmatter and instructions. Its name is exact on every system.
const MainFile = "SKILL.md"

// Limits. SEP-2640 fixes the files and the bytes of one skill; every host that conforms accepts that much.
const (
	maxFiles     = 512      // of one skill
	maxBytes     = 16 << 20 // of one skill
	maxMain      = 1 << 20  // bytes of SKILL.md, which a model reads at once
	maxSkills    = 1000     // folders below skills
	maxAllFiles  = 4096     // of all skills of an extension
	maxAllBytes  = 64 << 20 // of all skills of an extension
	maxDepth     = 16       // directories within a skill
	maxEntries   = 2048     // files and directories of one skill
	maxDirs      = 4096     // of Set.Dirs
	maxFileName  = 255      // bytes of one name
	maxPath      = 1024     // bytes of a path within a skill
	maxNamedLost = 8        // files that a note names

	maxAllEntries     = 16384   // files and directories of all skills of an extension
	maxAllFrontmatter = 2 << 20 // bytes of the frontmatter of all skills of an extension, which clients list at once
)

// Skill is a valid skill.
type Skill struct {
	Name        string
	Description string
	// Frontmatter is the frontmatter as a JSON object, its members in the author's order. The values of the fields that
	// the specification knows are texts, and the map of texts below metadata.
	Frontmatter []byte
	Unknown     []string // fields of Frontmatter that the specification does not know
	Files       []File   // sorted by path; SKILL.md is one of them
}

// File is a file of a skill, as it was when the skill was read.
type File struct {
	Path   string // below the folder of the skill, with slashes
	Digest string // sha256:{hex} of the bytes
	Size   int64
	MIME   string
	Text   bool // UTF-8 without NUL
	// Executable means that its mode lets somebody run it.
	Executable bool
	// Hidden is what a model reads in a text and a reader does not see: the characters from U+E0000 on, which spell
	// whole messages, or else the first other such character. It is bounded.
	Hidden string

	version file.Version
}

// Report is the verdict about one folder that holds a SKILL.md.
type Report struct {
	Name    string `json:"name"` // of the folder
	Valid   bool   `json:"valid"`
	Reason  string `json:"reason,omitempty"`  // why it is invalid, with the place
	Section string `json:"section,omitempty"` // of the specification that the reason stems from
	Note    string `json:"note,omitempty"`    // what is left out of a valid skill
	// Unknown says which fields of the frontmatter the specification does not know.
	Unknown string `json:"unknown,omitempty"`
}

// Sections of the specifications.
const (
	sectionLayout   = "Agent Skills: directory structure"
	sectionFormat   = "Agent Skills: SKILL.md format"
	sectionFields   = "Agent Skills: frontmatter"
	sectionLimits   = "SEP-2640: limits"
	sectionMapping  = "SEP-2640: resource mapping"
	sectionContains = "Agent Plugins 4.1: general requirements"
)

// invalid is the error of a skill that does not conform.
type invalid struct{ section, reason string }

func (e invalid) Error() string { return e.reason }

func wrong(section, format string, args ...any) error {
	return invalid{section, fmt.Sprintf(format, args...)}
}

// Set is the skills of one extension.
type Set struct {
	Root    string   // the folder of the extension, with links resolved
	Skills  []*Skill // valid ones, sorted by name
	Reports []Report // of every folder with a SKILL.md, sorted by name
	Err     error    // why there are no skills although the directory is there
	// Dirs are the directories in which a change may change the set, as absolute paths: those of skills, valid or not,
	// and of what may become one.
	Dirs []string
}

// Read reads the skills below root, the folder of an extension: each immediate subfolder of skills that holds a
// SKILL.md. It follows symbolic links as far as they stay below root, reads no FIFO or device, and keeps the content
// of no file. A folder without skills has an empty set.
func Read(root string) *Set { return Reread(root, nil) }

// Reread is [Read] with the result of an earlier one: of files whose version has not changed since, it reads only
// SKILL.md again. It ignores before if that is nil or of another folder.
func Reread(root string, before *Set) *Set {
	if _, err := os.Lstat(filepath.Join(root, Folder)); errors.Is(err, fs.ErrNotExist) {
		return &Set{Root: root}
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return &Set{Root: root, Err: err}
	}
	s := &Set{Root: real}
	if before != nil && before.Root != real {
		before = nil
	}
	in, err := os.OpenRoot(real)
	if err != nil {
		s.Err = err
		return s
	}
	defer in.Close() // read only
	r := reader{root: in, before: before, left: left{maxAllFiles, maxAllBytes, maxAllEntries, maxAllFrontmatter}}
	r.enter(Folder)
	defer func() { s.Dirs = r.dirs }()
	names, err := subfolders(in)
	if err != nil {
		s.Err = err
		return s
	}
	for _, name := range names {
		skill, lost, err := r.skill(name)
		if errors.Is(err, errNoSkill) {
			continue
		}
		report := Report{Name: name, Valid: err == nil, Note: note(lost)}
		if err != nil {
			report.Reason = err.Error()
			if e, ok := errors.AsType[invalid](err); ok {
				report.Section = e.section
			}
		} else {
			s.Skills = append(s.Skills, skill)
			report.Unknown = unknown(skill.Unknown)
		}
		s.Reports = append(s.Reports, report)
	}
	return s
}

// Find returns the skill of that name, nil if there is none. s may be nil.
func (s *Set) Find(name string) *Skill {
	if s == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(s.Skills, name, func(k *Skill, name string) int {
		return strings.Compare(k.Name, name)
	})
	if !found {
		return nil
	}
	return s.Skills[i]
}

// File returns the file of that path, nil if there is none. k may be nil.
func (k *Skill) File(path string) *File {
	if k == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(k.Files, path, func(f File, path string) int {
		return strings.Compare(f.Path, path)
	})
	if !found {
		return nil
	}
	return &k.Files[i]
}

// Size returns the bytes of all files.
func (k *Skill) Size() (total int64) {
	for _, f := range k.Files {
		total += f.Size
	}
	return total
}

// Content reads a file of a skill of s. The error says so if it is not what it was when the skill was read.
func (s *Set) Content(k *Skill, f *File) ([]byte, error) {
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	data, err := readFile(root, path.Join(Folder, k.Name, f.Path), maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s of skill %s is gone since the host read the skill", f.Path, k.Name)
	case err != nil:
		return nil, fmt.Errorf("%s of skill %s: %w", f.Path, k.Name, err)
	case Digest(data) != f.Digest:
		return nil, fmt.Errorf("%s of skill %s has changed since the host read the skill", f.Path, k.Name)
	}
	return data, nil
}

// note says which files are left out.
func note(lost []string) string {
	if len(lost) == 0 {
		return ""
	}
	text := strings.Join(lost[:min(len(lost), maxNamedLost)], ", ")
	if more := len(lost) - maxNamedLost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "left out, because it leads out of the extension's folder or is no file: " + text
}
