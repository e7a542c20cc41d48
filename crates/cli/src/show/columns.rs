//! Names in columns, top to bottom, as `ls` lays them out on a terminal.

/// Between columns.
const GAP: usize = 2;

/// The widths of the columns, for items of these widths on lines of `line_width`: as many columns
/// as fit, at least one.
fn fit(widths: &[usize], line_width: usize) -> Vec<usize> {
    for count in (2..=widths.len().min(line_width / (1 + GAP) + 1)).rev() {
        let rows = widths.len().div_ceil(count);
        let columns: Vec<usize> = widths
            .chunks(rows)
            .map(|column| column.iter().copied().max().unwrap_or(0))
            .collect();
        let total = columns.iter().sum::<usize>() + GAP * (columns.len() - 1);
        if total < line_width {
            return columns;
        }
    }
    vec![widths.iter().copied().max().unwrap_or(0)]
}

/// The lines that show `items`, each with its width in cells.
pub fn lines(items: &[(String, usize)], line_width: usize) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let widths: Vec<usize> = items.iter().map(|(_, width)| *width).collect();
    let columns = fit(&widths, line_width);
    let rows = items.len().div_ceil(columns.len());
    (0..rows)
        .map(|row| {
            let mut line = String::new();
            let mut padding = 0;
            for (item, column) in items.iter().skip(row).step_by(rows).zip(&columns) {
                line.extend(std::iter::repeat_n(' ', padding));
                line.push_str(&item.0);
                padding = column - item.1 + GAP;
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &[&str], line_width: usize) -> Vec<String> {
        let items: Vec<_> = names.iter().map(|n| ((*n).to_owned(), n.len())).collect();
        lines(&items, line_width)
    }

    #[test]
    fn names_run_down_the_columns() {
        assert_eq!(
            shown(&["a", "bb", "c", "d", "e"], 8),
            ["a   d", "bb  e", "c"]
        );
        assert_eq!(shown(&["a", "bb", "c"], 80), ["a  bb  c"]);
        assert_eq!(shown(&["long-name", "b"], 5), ["long-name", "b"]);
        assert!(shown(&[], 80).is_empty());
    }

    #[test]
    fn every_name_is_there_once_and_fits_if_it_can() {
        let names: Vec<String> = (0..97).map(|n| "x".repeat(n % 13 + 1)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for width in 1..120 {
            let lines = shown(&names, width);
            let words = lines.iter().flat_map(|line| line.split_whitespace());
            assert_eq!(words.count(), names.len());
            let single = lines.len() == names.len();
            assert!(single || lines.iter().all(|line| line.len() < width));
        }
    }
}
