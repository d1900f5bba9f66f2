//! Exact decimals: weights and ratios are kept as millionths, read from their text, so that a
//! comparison at a boundary (4 of 5 against 0.8) is exact.

use std::fmt;

/// A number from 0 to 1 in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    micros: u32,
}

/// Why a text is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// A plus or minus sign.
    #[error("the number has a sign")]
    Sign,
    /// More than six decimals.
    #[error("the number has more than 6 decimals")]
    Decimals,
    /// Above one.
    #[error("the number is greater than 1")]
    Above,
    /// inf, nan, an exponent, or something else.
    #[error("the number is not written in plain decimals")]
    Form,
}

impl Decimal {
    /// 0
    pub const ZERO: Self = Self { micros: 0 };
    /// 1
    pub const ONE: Self = Self { micros: 1_000_000 };

    /// Reads `0`, `1`, `0.25`: digits, and at most six of them after the point.
    ///
    /// # Errors
    /// [`DecimalError`] for a sign, inf, nan, exponents, more decimals and values above 1.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        if text.starts_with(['+', '-']) {
            return Err(DecimalError::Sign);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(DecimalError::Form);
        }
        if fraction.len() > 6 {
            return Err(DecimalError::Decimals);
        }
        let whole: u64 = whole.parse().map_err(|_| DecimalError::Above)?;
        let fraction: u64 = format!("{fraction:0<6}").parse().map_err(|_| DecimalError::Form)?;
        let micros = whole.saturating_mul(1_000_000).saturating_add(fraction);
        match u32::try_from(micros) {
            Ok(micros) if micros <= Self::ONE.micros => Ok(Self { micros }),
            _ => Err(DecimalError::Above),
        }
    }

    /// The number in millionths, 0 to 1,000,000.
    pub fn micros(self) -> u32 {
        self.micros
    }

    /// True for 0.
    pub fn is_zero(self) -> bool {
        self.micros == 0
    }

    /// Compares `part` of `whole` with this number, exactly: part / whole >= self.
    /// `whole` 0 counts as ratio 0.
    pub fn is_reached_by(self, part: usize, whole: usize) -> bool {
        if whole == 0 {
            return self.is_zero();
        }
        let part = (part as u128) * 1_000_000;
        part >= u128::from(self.micros) * (whole as u128)
    }

    /// The nearest floating-point number, for display only.
    pub fn to_f64(self) -> f64 {
        f64::from(self.micros) / 1_000_000.0
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let digits = format!("{fraction:06}");
        let digits = digits.trim_end_matches('0');
        write!(f, "{whole}.{}", if digits.is_empty() { "0" } else { digits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_exact() {
        for (ratio, part, whole) in
            [("0.8", 4, 5), ("0.7", 7, 10), ("0.3", 3, 10), ("0.6", 6, 10), ("0.29", 29, 100)]
        {
            let ratio = Decimal::parse(ratio).unwrap();
            assert!(ratio.is_reached_by(part, whole));
            assert!(!ratio.is_reached_by(part - 1, whole));
        }
        assert!(!Decimal::parse("0.34").unwrap().is_reached_by(1, 3));
        assert!(Decimal::parse("0.66").unwrap().is_reached_by(2, 3));
    }

    #[test]
    fn numbers_are_read_exactly_and_shown_shortest() {
        for (text, micros, shown) in [
            ("0", 0, "0.0"),
            ("1", 1_000_000, "1.0"),
            ("0.40", 400_000, "0.4"),
            ("1.000000", 1_000_000, "1.0"),
            ("0.000001", 1, "0.000001"),
        ] {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!((decimal.micros(), decimal.to_string().as_str()), (micros, shown));
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, error) in [
            ("-0.5", DecimalError::Sign),
            ("+0.5", DecimalError::Sign),
            ("0.1234567", DecimalError::Decimals),
            ("1.000001", DecimalError::Above),
            ("99999999999999999999999", DecimalError::Above),
            ("inf", DecimalError::Form),
            ("nan", DecimalError::Form),
            ("1e-1", DecimalError::Form),
            ("0x1", DecimalError::Form),
            (".5", DecimalError::Form),
        ] {
            assert_eq!(Decimal::parse(text), Err(error), "{text}");
        }
    }
}
