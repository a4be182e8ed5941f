package tools

// Found is the result of a search among tools.
type Found struct {
	Best       []*Entry     // at most 5, best first
	More       []FoundGroup // more tools of the best extension, and of another one that is nearly as good; at most 10
	Extensions []string     // if nothing was found: extensions with visible tools, at most 50
	Skills     []FoundSkill // best first, at most 3
}

// FoundGroup is tools of one extension.
type FoundGroup struct {
	Extension string
	Tools     []*Entry // best first
	Left      int      // number of the extension's tools that are not in the result
}

// FoundSkill is a skill of an extension.
type FoundSkill struct {
	Extension   string
	Name        string
	Description string
	URI         string // of its SKILL.md
}
