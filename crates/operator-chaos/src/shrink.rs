//! [`shrink`] finds smaller inputs that still fail.

/// Returns a list with fewer items for which `fails` still returns true, and from which no single item can be removed.
/// This is delta debugging that removes only single items, because the lists are short.
pub(crate) fn shrink<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    let mut index = kept.len();
    while index > 0 {
        index -= 1;
        if kept.len() == 1 {
            break;
        }
        let mut fewer = kept.clone();
        fewer.remove(index);
        if fails(&fewer) {
            kept = fewer;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnecessary_items_are_removed() {
        let kept = shrink(&[1, 2, 3, 4, 5, 6], |items| {
            items.contains(&2) && items.contains(&5)
        });
        assert_eq!(kept, [2, 5]);
        assert_eq!(shrink(&[7], |_| true), [7]);
    }
}
