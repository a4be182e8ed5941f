package exthost

import (
	"maps"

	"github.com/exthost/exthost/internal/listing/skills"
)

// SkillFolder is the valid skills in the folder of one extension. It is immutable, and reads files on demand.
type SkillFolder = skills.Served

// Skills returns the skills in the folders of extensions, by the id of the extension, held ones too. The status says
// which are held.
func (h *Host) Skills() map[string]*SkillFolder { return maps.Clone(h.snapshots.Load().Skills) }
