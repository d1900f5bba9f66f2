//! Which names of which folders a path leads over. A link on the way may be swapped for another (as
//! Kubernetes does with the files of a ConfigMap), a folder renamed: the path is the same and leads
//! elsewhere. So every name on the way is of interest, not the last one alone.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The most links that are followed, as by Linux.
const MAX_LINKS: usize = 40;

/// Where a path leads, and over what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The names, each with the folder that it is in: no link is in the folders' own paths.
    pub(super) names: Vec<(PathBuf, OsString)>,
    /// The end, which need not exist.
    pub(super) end: PathBuf,
}

impl Way {
    /// Follows a path as the system does when it opens it.
    pub(super) fn of(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut ahead: VecDeque<OsString> = components(&absolute).collect();
        let (mut names, mut end, mut links) = (Vec::new(), PathBuf::from("/"), 0);
        while let Some(component) = ahead.pop_front() {
            if component == "/" {
                end = PathBuf::from("/");
            } else if component == ".." {
                end.pop();
            } else {
                let here = end.join(&component);
                names.push((end.clone(), component));
                match fs::read_link(&here) {
                    Ok(target) if links < MAX_LINKS => {
                        links += 1;
                        for component in components(&target).rev() {
                            ahead.push_front(component);
                        }
                    }
                    _ => end = here,
                }
            }
        }
        Self { names, end }
    }
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let is_step = |component: &Component<'_>| !matches!(component, Component::CurDir);
    path.components().filter(is_step).map(|component| component.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("..1")).unwrap();
        symlink("..1", root.join("..data")).unwrap();
        symlink("./..data/a.toml", root.join("a.toml")).unwrap();
        let way = Way::of(&root.join("a.toml"));
        let inside: Vec<_> = way.names.iter().filter(|(at, _)| at.starts_with(&root)).collect();
        let names: Vec<_> = inside.iter().map(|(_, name)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["a.toml", "..data", "..1", "a.toml"]);
        assert_eq!(way.end, root.join("..1/a.toml"));
        assert_eq!(inside[3].0, root.join("..1"));
    }

    #[test]
    fn a_ring_of_links_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        assert!(Way::of(&folder.path().join("a")).names.len() < 100);
    }
}
