//! References to the resources of a log call.

use ecow::EcoString;
use kilter_model::Change;

/// References to resources: a name, a change, or a list of them. [`InScope`] refers to the resources of the open
/// block.
pub trait Titles {
    /// Calls `take` with each name.
    fn each(&self, take: &mut dyn FnMut(&str));

    /// Returns true for the resources of the innermost block.
    fn is_here(&self) -> bool {
        false
    }
}

/// The resources of the innermost open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InScope;

impl Titles for InScope {
    fn each(&self, _: &mut dyn FnMut(&str)) {}

    fn is_here(&self) -> bool {
        true
    }
}

impl Titles for str {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        take(self);
    }
}

impl Titles for String {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        take(self);
    }
}

impl Titles for EcoString {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        take(self);
    }
}

impl Titles for Change<'_> {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        take(self.name);
    }
}

impl<T: Titles> Titles for [T] {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        self.iter().for_each(|title| title.each(take));
    }
}

impl<T: Titles, const N: usize> Titles for [T; N] {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        self.as_slice().each(take);
    }
}

impl<T: Titles> Titles for Vec<T> {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        self.as_slice().each(take);
    }
}

impl<T: Titles + ?Sized> Titles for &T {
    fn each(&self, take: &mut dyn FnMut(&str)) {
        (**self).each(take);
    }

    fn is_here(&self) -> bool {
        (**self).is_here()
    }
}
