//! Sizes for people.

/// A number of bytes as coreutils show it with `-h`: rounded up, with one digit behind the point
/// below 10.
pub fn human(bytes: u64) -> String {
    let mut unit = 1_u128;
    for letter in ["", "K", "M", "G", "T", "P", "E"] {
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        if letter.is_empty() && bytes < 1024 {
            return bytes.to_string();
        }
        if !letter.is_empty() && tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(unit);
        if !letter.is_empty() && whole < 1024 {
            return format!("{whole}{letter}");
        }
        unit *= 1024;
    }
    // 2⁶⁴ bytes are 16 EiB.
    "16E".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people_are_those_of_coreutils() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (4096, "4.0K"),
            (10_137, "9.9K"),
            (10_138, "10K"),
            (12_288, "12K"),
            (1 << 20, "1.0M"),
            ((1 << 20) - 1, "1.0M"),
            (5 << 30, "5.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }
}
