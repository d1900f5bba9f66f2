//! The order of pools by distance (steering.md, "Steering policies"). Used while loading: a query only
//! looks up the order that belongs to its client's coordinates.

use crate::locate::centroids;
use crate::locate::place::{Coordinates, Place};
use crate::steer::pool::PoolId;

/// The mean radius of the Earth in kilometres (IUGG).
const EARTH_RADIUS: f64 = 6371.0088;

/// A point on a sphere of radius 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point([f64; 3]);

impl From<Coordinates> for Point {
    fn from(coordinates: Coordinates) -> Self {
        let [latitude, longitude] = coordinates.to_degrees().map(f64::to_radians);
        let (height, around) = latitude.sin_cos();
        let (east, ahead) = longitude.sin_cos();
        Self([around * ahead, around * east, height])
    }
}

impl Point {
    /// The square of the straight line between two points: it grows with the great-circle distance,
    /// and is exact for near points where an arc's cosine is not.
    fn chord_squared(self, other: Self) -> f64 {
        self.0.iter().zip(other.0).map(|(a, b)| (a - b) * (a - b)).sum()
    }

    /// The great-circle distance in kilometres.
    pub fn distance(self, other: Self) -> f64 {
        let half_chord = (self.chord_squared(other).sqrt() / 2.0).min(1.0);
        2.0 * EARTH_RADIUS * half_chord.asin()
    }
}

/// Where distances to a client are measured from: its coordinates, else the middle of its country.
pub fn client_coordinates(place: &Place) -> Option<Coordinates> {
    place.coordinates.or_else(|| centroids::of(place.country?))
}

/// Reorders pools by their distance from a point, nearest first; those equally far keep their order.
/// A pool without a location keeps its position; the others are placed among the remaining ones.
pub fn order(pools: &[(PoolId, Option<Point>)], client: Point) -> Vec<PoolId> {
    let mut placed: Vec<(f64, PoolId)> = pools
        .iter()
        .filter_map(|&(pool, point)| Some((client.chord_squared(point?), pool)))
        .collect();
    // A stable sort; no distance is NaN.
    placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut placed = placed.into_iter().map(|(_, pool)| pool);
    let position = |&(pool, point): &(PoolId, Option<Point>)| {
        point.and_then(|_| placed.next()).unwrap_or(pool)
    };
    pools.iter().map(position).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(latitude: f64, longitude: f64) -> Point {
        Coordinates::from_degrees(latitude, longitude).unwrap().into()
    }

    fn order_of(pools: &[Option<(f64, f64)>], client: (f64, f64)) -> Vec<u32> {
        let point_of = |pool: &Option<(f64, f64)>| pool.map(|(lat, lon)| point(lat, lon));
        let pools: Vec<_> = (0..).map(PoolId).zip(pools.iter().map(point_of)).collect();
        order(&pools, point(client.0, client.1)).iter().map(|pool| pool.0).collect()
    }

    #[test]
    fn distances_are_great_circles() {
        let amsterdam = point(52.37, 4.9);
        for (name, other, kilometres) in [
            ("itself", amsterdam, 0.0),
            ("London", point(51.51, -0.13), 358.0),
            ("New York", point(40.71, -74.01), 5_863.0),
            ("the antipode", point(-52.37, -175.1), 20_015.0),
        ] {
            let apart = amsterdam.distance(other);
            assert!((apart - kilometres).abs() < 10.0, "{name}: {apart}");
        }
        // Across the date line, where the longitudes are far apart.
        let apart = point(0.0, 179.9).distance(point(0.0, -179.9));
        assert!((apart - 22.24).abs() < 0.01, "{apart}");
    }

    #[test]
    fn nearest_first_and_without_a_location_in_place() {
        let (london, tokyo, new_york) = ((51.5, -0.1), (35.7, 139.7), (40.7, -74.0));
        let paris = (48.9, 2.4);
        assert_eq!(order_of(&[Some(tokyo), Some(new_york), Some(london)], paris), [2, 1, 0]);
        assert_eq!(order_of(&[Some(tokyo), None, Some(london)], paris), [2, 1, 0]);
        assert_eq!(order_of(&[None, Some(tokyo), Some(london)], paris), [0, 2, 1]);
        assert_eq!(order_of(&[Some(london), Some(london)], paris), [0, 1]);
        assert_eq!(order_of(&[None, None], paris), [0, 1]);
    }

    fn degrees() -> impl Strategy<Value = (f64, f64)> {
        // Coarse, so that points coincide and lie on the poles and the date line.
        (-6i32..=6, -12i32..=12)
            .prop_map(|(latitude, longitude)| (f64::from(latitude * 15), f64::from(longitude * 15)))
    }

    /// The distance as an angle, by the haversine formula.
    fn haversine(
        (latitude_a, longitude_a): (f64, f64),
        (latitude_b, longitude_b): (f64, f64),
    ) -> f64 {
        let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
        let along = latitude_a.to_radians().cos() * latitude_b.to_radians().cos();
        let h = half(latitude_a, latitude_b) + along * half(longitude_a, longitude_b);
        2.0 * h.sqrt().min(1.0).asin()
    }

    proptest! {
        /// The order is a sort by distance in which pools without a location do not move.
        #[test]
        fn the_order_is_a_sort_by_distance(
            pools in proptest::collection::vec(proptest::option::of(degrees()), 0..10),
            client in degrees(),
        ) {
            let order = order_of(&pools, client);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..u32::try_from(pools.len()).unwrap()).collect::<Vec<_>>());
            let at = |number: u32| pools[usize::try_from(number).unwrap()];
            for (position, &number) in (0u32..).zip(&order) {
                prop_assert_eq!(at(position).is_none(), at(number).is_none());
                prop_assert!(at(number).is_some() || position == number);
            }
            let placed: Vec<_> =
                order.iter().filter_map(|&number| Some((number, at(number)?))).collect();
            for pair in placed.windows(2) {
                let [(first, near), (second, far)] = [pair[0], pair[1]];
                prop_assert!(haversine(client, near) <= haversine(client, far) + 1e-9);
                prop_assert!(near != far || first < second, "equally far: in their order");
            }
        }
    }
}
